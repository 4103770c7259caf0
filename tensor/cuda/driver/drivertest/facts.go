package drivertest

import (
	"errors"
	"fmt"

	"github.com/ringside-go/ringside/tensor/cuda/driver"
)

// DeviceFacts describes a device: all attributes that the driver knows, and the other
// devices whose memory it reaches.
type DeviceFacts struct {
	Name       string                         `json:"name"`
	UUID       string                         `json:"uuid"`
	PCIBus     string                         `json:"pci_bus"`
	Bytes      uint64                         `json:"bytes"`
	Attributes map[driver.DeviceAttribute]int `json:"attributes"`
	Peers      []int                          `json:"peers"`
}

// lastAttribute is beyond all attributes that drivers know.
const lastAttribute = 256

// Facts calls Init and describes all devices.
func Facts(api driver.API) ([]DeviceFacts, error) {
	if err := api.Init(); err != nil {
		return nil, err
	}
	n, err := api.DeviceCount()
	if err != nil {
		return nil, err
	}
	all := make([]DeviceFacts, n)
	for i := range all {
		if err := all[i].read(api, i, n); err != nil {
			return nil, fmt.Errorf("device %d: %w", i, err)
		}
	}
	return all, nil
}

// read fills in the facts of device i of n.
func (f *DeviceFacts) read(api driver.API, i, n int) error {
	d, err := api.DeviceGet(i)
	if err != nil {
		return err
	}
	var errs [4]error
	var id driver.UUID
	f.Name, errs[0] = api.DeviceName(d)
	id, errs[1] = api.DeviceUUID(d)
	f.PCIBus, errs[2] = api.DevicePCIBus(d)
	f.Bytes, errs[3] = api.DeviceMemory(d)
	f.UUID, f.Attributes = fmt.Sprintf("%x", id), map[driver.DeviceAttribute]int{}
	for a := driver.DeviceAttribute(1); a < lastAttribute; a++ {
		if v, err := api.DeviceAttribute(d, a); err == nil {
			f.Attributes[a] = v
		}
	}
	for k := range n {
		if k == i {
			continue
		}
		peer, err := api.DeviceGet(k)
		if err != nil {
			return err
		}
		if can, err := api.DeviceCanAccessPeer(d, peer); err != nil {
			return err
		} else if can {
			f.Peers = append(f.Peers, k)
		}
	}
	return errors.Join(errs[:]...)
}
