module github.com/ringside-go/ringside/tensor/cuda/driver/gorgonia

go 1.26.0

require (
	github.com/ringside-go/ringside v0.0.0
	gorgonia.org/cu v0.9.6
)

require (
	github.com/google/uuid v1.6.0 // indirect
	github.com/pkg/errors v0.9.1 // indirect
)

replace github.com/ringside-go/ringside => ../../../..
