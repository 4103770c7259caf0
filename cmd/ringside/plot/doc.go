// Package plot draws the losses of training runs over their steps, several runs in one
// picture, as SVG and as PNG.
//
//	read.go   reads what train --log-dir wrote
//	chart.go  where everything lies
//	svg.go    draws it as SVG
//	png.go    draws it as PNG
package plot
