// Package kubernetes has no code of its own: a test reads the manifests of the
// documentation with the types that Kubernetes and JobSet publish. It is a module by
// itself, so that these types reach no user.
package kubernetes
