// Package model has complete models: a classifier, a small convolutional network, and
// language models of the designs of GPT-2 and Qwen3. Parameters have the names of
// published files.
package model
