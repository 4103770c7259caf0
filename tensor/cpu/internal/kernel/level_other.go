//go:build !amd64

package kernel

// accelerate and accelerateDoubles are never called here: no level but Go is supported.
func accelerate(*Table[float32], Level) {}

func accelerateDoubles(*Table[float64], Level) {}
