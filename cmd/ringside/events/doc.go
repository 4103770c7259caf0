// Package events writes files that TensorBoard reads: TFRecords of Event messages.
//
// A record is the length of its data as a uint64, the masked CRC-32C of these 8 bytes,
// the data, and the masked CRC-32C of the data, all little endian. The data is a
// tensorflow.Event in the wire format of protocol buffers:
// tensorflow/core/lib/io/record_writer.h and tensorflow/core/util/event.proto.
package events
