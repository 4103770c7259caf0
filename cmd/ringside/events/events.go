package events

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// FileName returns the name of a file of a process that began to write at a time. It has
// the word by which TensorBoard finds such files, and is another one for each process.
func FileName(begin time.Time, host string, pid int) string {
	return fmt.Sprintf("events.out.tfevents.%d.%s.%d", begin.Unix(), host, pid)
}

// version is the first event of a file.
const version = "brain.Event:2"

// Fields of tensorflow.Event, Summary, Summary.Value, SummaryMetadata and TensorProto.
const (
	eventTime    = 1 // double, seconds since 1970
	eventStep    = 2 // int64
	eventVersion = 3 // string
	eventSummary = 5

	summaryValue = 1

	valueTag      = 1 // string
	valueSimple   = 2 // float
	valueTensor   = 8
	valueMetadata = 9

	metadataPlugin = 1
	pluginName     = 1 // string

	tensorType   = 1 // DataType
	tensorShape  = 2
	tensorString = 8 // bytes

	shapeDim = 2
	dimSize  = 1 // int64

	typeString = 7 // DataType of texts
)

// Writer writes events, each with one call of the io.Writer. One goroutine at a time uses
// it.
type Writer struct {
	out    io.Writer
	record []byte
}

// NewWriter returns a writer and writes the version of the format.
func NewWriter(out io.Writer, begin time.Time) (*Writer, error) {
	w := &Writer{out: out}
	return w, w.write(begin, 0, func(b []byte) []byte {
		b = protowire.AppendTag(b, eventVersion, protowire.BytesType)
		return protowire.AppendString(b, version)
	})
}

// Scalars writes values of a step, each under its tag.
func (w *Writer) Scalars(at time.Time, step int, values ...Scalar) error {
	var summary []byte
	for _, v := range values {
		value := appendTag(nil, v.Tag)
		value = protowire.AppendTag(value, valueSimple, protowire.Fixed32Type)
		value = protowire.AppendFixed32(value, math.Float32bits(float32(v.Value)))
		summary = appendMessage(summary, summaryValue, value)
	}
	return w.write(at, step, func(b []byte) []byte { return appendMessage(b, eventSummary, summary) })
}

// Scalar is a number and its tag. TensorBoard draws one chart for each tag.
type Scalar struct {
	Tag   string
	Value float64
}

// Text writes a text of a step, which is Markdown for TensorBoard.
func (w *Writer) Text(at time.Time, step int, tag, text string) error {
	plugin := protowire.AppendTag(nil, pluginName, protowire.BytesType)
	plugin = protowire.AppendString(plugin, "text")
	dim := protowire.AppendTag(nil, dimSize, protowire.VarintType)
	dim = protowire.AppendVarint(dim, 1)
	tensor := protowire.AppendTag(nil, tensorType, protowire.VarintType)
	tensor = protowire.AppendVarint(tensor, typeString)
	tensor = appendMessage(tensor, tensorShape, appendMessage(nil, shapeDim, dim))
	tensor = appendMessage(tensor, tensorString, []byte(text))
	value := appendTag(nil, tag)
	value = appendMessage(value, valueTensor, tensor)
	value = appendMessage(value, valueMetadata, appendMessage(nil, metadataPlugin, plugin))
	return w.write(at, step, func(b []byte) []byte {
		return appendMessage(b, eventSummary, appendMessage(nil, summaryValue, value))
	})
}

// write writes an event; more appends what it is about.
func (w *Writer) write(at time.Time, step int, more func([]byte) []byte) error {
	const head = 8 + 4
	b := append(w.record[:0], make([]byte, head)...)
	b = protowire.AppendTag(b, eventTime, protowire.Fixed64Type)
	b = protowire.AppendFixed64(b, math.Float64bits(float64(at.UnixNano())/1e9))
	if step != 0 {
		b = protowire.AppendTag(b, eventStep, protowire.VarintType)
		b = protowire.AppendVarint(b, uint64(step))
	}
	b = more(b)
	data := b[head:]
	binary.LittleEndian.PutUint64(b, uint64(len(data)))
	binary.LittleEndian.PutUint32(b[8:], masked(b[:8]))
	b = binary.LittleEndian.AppendUint32(b, masked(data))
	w.record = b
	_, err := w.out.Write(b)
	return err
}

func appendTag(b []byte, tag string) []byte {
	b = protowire.AppendTag(b, valueTag, protowire.BytesType)
	return protowire.AppendString(b, tag)
}

func appendMessage(b []byte, field protowire.Number, message []byte) []byte {
	b = protowire.AppendTag(b, field, protowire.BytesType)
	return protowire.AppendBytes(b, message)
}

// masked is the CRC-32C as TFRecords have it: rotated and with a constant added, so that
// the checksum of data that has checksums in it is no simple one.
func masked(data []byte) uint32 {
	sum := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
	return (sum>>15 | sum<<17) + 0xa282ead8
}
