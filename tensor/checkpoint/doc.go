// Package checkpoint saves tensors to a folder and restores them. A failed save leaves
// the checkpoint of before.
//
//	err := checkpoint.Save(ctx, sess, "run1", tensors, &checkpoint.Options{Step: n})
//	...
//	c, err := checkpoint.Open("run1")
//	err = c.Restore(ctx, tensors)
//
// # Files
//
//	run1/manifest.json              step, notes, and the slices of every tensor with their
//	                                files, offsets and hashes
//	run1/data-8f0c…/0.safetensors   the bytes: one file for each writer
//
// The workers that hold the bytes write them, into files that the client opened for them;
// see tensor.Saver. A tensor that several workers share is several slices, one in the
// file of each. Restore joins the slices, so the number of workers and the way they share
// a tensor may be others by then. The files are safetensors files, which other programs
// can read.
//
// # Crashes
//
// A Save writes its files to a folder with a new name, syncs them, and then renames the
// new manifest over the old one. The rename is the moment of the change. Whenever a
// process dies, the manifest is the old or the new one and complete, and so are the files
// that it names. The next Save removes other files that a crash leaves in the folder.
//
// Everything that is read from a folder is checked before it is used. Errors name file,
// tensor, value and expected value.
package checkpoint
