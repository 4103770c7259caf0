package ipc

const (
	WarnAtOnce = warnAtOnce
	WarnEvery  = warnEvery
)
