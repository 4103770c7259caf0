// Package devicetest tests what every device.Device must do: Run is the suite. Each runs
// a test of other packages on every device of this process, so that what passes on cores
// is seen to pass where values lie out of reach and programs run late.
//
//	suite.go   the suite's list of tests
//	fixture.go how tests make programs and values, and look at them
//	values.go  values come and go: Import, Make, Fill, Alias, Host, Read, Free
//	runs.go    programs: results, late failures, several spaces
//	each.go    a test on every device
package devicetest
