package ipctest

import "testing"

func TestNetwork(t *testing.T) {
	Run(t, func(t *testing.T) Fixture {
		n := new(Network)
		names := 0
		return Fixture{Transport: n, Addr: func() string {
			names++
			return pipePrefix + string(rune('a'+names))
		}}
	})
}
