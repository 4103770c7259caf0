package apart

import "github.com/ringside-go/ringside/shm"

// Values returns the arena of reserved addresses that values lie in.
func (d *Device) Values() *shm.Arena { return d.cpu.Arena() }
