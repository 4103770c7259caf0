module github.com/ringside-go/ringside

go 1.26.0

require (
	github.com/cloudwego/netpoll v0.7.2
	github.com/edsrzf/mmap-go v1.2.0
	github.com/spf13/cobra v1.10.2
	github.com/spf13/pflag v1.0.9
	go.yaml.in/yaml/v3 v3.0.4
	golang.org/x/sys v0.49.0
)

require (
	github.com/bytedance/gopkg v0.1.1 // indirect
	github.com/cloudwego/gopkg v0.1.4 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
)
