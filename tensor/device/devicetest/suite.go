package devicetest

import (
	"testing"

	"github.com/ringside-go/ringside/tensor/device"
)

// Run tests devices that open returns. Every test has a device of its own, which it
// closes.
func Run(t *testing.T, open func(t *testing.T) device.Device) {
	for name, f := range map[string]func(*fixture){
		"info":                           info,
		"bytes come back":                bytesComeBack,
		"imports that fail":              importsFail,
		"imports of a peer's memory":     importsOfPeers,
		"make and fill":                  makeAndFill,
		"alias":                          alias,
		"host bytes stay":                hostStays,
		"a block alone may be written":   hostAlone,
		"read":                           read,
		"free":                           free,
		"no space":                       noSpace,
		"results at once":                resultsAtOnce,
		"donated inputs":                 donated,
		"mistakes in arguments":          mistakes,
		"a failure and what it prevents": failure,
		"a failure is told once":         toldOnce,
		"malformed programs":             malformed,
		"the cache of programs":          cache,
		"two spaces at once":             twoSpaces,
		"a result without elements":      empty,
		"a program that is stopped":      stopped,
		"a failure before stopped ones":  stoppedBehind,
		"memory that is given back":      trimmed,
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t)
			t.Cleanup(func() {
				if err := d.Close(); err != nil {
					t.Error(err)
				}
			})
			f(newFixture(t, d))
		})
	}
}
