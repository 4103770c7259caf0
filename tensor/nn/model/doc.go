// Package model has ready models: a classifier, a small convolutional network, and a language model of Qwen3's design,
// with the names of parameters that published files have.
package model
