// Package checkpoint keeps tensors in a folder from which they can be restored: all of them, or what was there before.
//
//	err := checkpoint.Save(ctx, sess, "run1", tensors, &checkpoint.Options{Step: n})
//	...
//	c, err := checkpoint.Open("run1")
//	err = c.Restore(ctx, tensors)
//
// # Files
//
//	run1/manifest.json              what there is: step, notes, and of every tensor where its slices lie, with a hash of each
//	run1/data-8f0c…/0.safetensors   the bytes: one file for each who wrote
//
// The bytes are written by the workers that hold them, into files that they are handed open; see tensor.Saver. A tensor
// that several hold is several slices, one in the file of each, and Restore puts it together for whoever wants it: it
// does not matter how many workers there are then, nor how they share it. The files are safetensors files, which other
// programs read as well.
//
// # What a crash leaves
//
// Files are written in a folder with a name of its own and synced before the manifest that names them takes the old one's
// place by rename, which is the moment of the change. Whatever dies and whenever, the manifest is an old or a new one and
// complete, and so are the files that it names. What else a crash leaves in the folder the next Save removes.
//
// Whatever is read from a folder is checked before it is used; errors name file, tensor, value and what was expected.
package checkpoint
