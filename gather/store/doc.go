// Package store gets peers' payloads from where they lie, and puts what this host makes.
//
//	store.go                     the interface Store, and stores by URL
//	mem.go file.go http.go s3.go the stores
//	fetch.go body.go             a payload with one request an attempt, retries, parts
//	spool.go                     payloads on disk while their window lasts
//
// A payload is asked for by one GET, without a HEAD before it: time, size and ETag come
// with the body, so nothing can change between looking and reading.
//
//	      ┌────────── wait: full jitter, or Retry-After ◀─────────┐
//	      ▼                                                       │
//	GET ─▶ LastModified in the window? ─▶ size allowed? ─▶ body ──┤ broken: GET the rest,
//	         no: TOO_EARLY, TOO_LATE       no: TOO_LARGE     │    │ If-Match: the ETag
//	                                                         ▼    │ 412: CHANGED, from
//	                                            validator, spool  │ the start, once
//
// Where the largest payload that a manifest allows is larger than a part, the first GET
// is for the first part and each next one for the next, under the same ETag.
package store
