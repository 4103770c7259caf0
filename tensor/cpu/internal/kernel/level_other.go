//go:build !amd64 && !arm64

package kernel

// These functions are never called here: no level but Go is supported.
func accelerate(*Table[float32], Level) {}

func accelerateDoubles(*Table[float64], Level) {}

func acceleratePlain(*Plain, Level) {}

func accelerateProducts(*IntProducts, Level) {}

func accelerateFolds(*Folds, Level) {}
