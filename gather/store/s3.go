package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/ringside-go/ringside/gather/outcome"
	"github.com/ringside-go/ringside/shm/plain"
)

// S3Options says how to reach a bucket. Nothing prints AccessKey or SecretKey.
type S3Options struct {
	Endpoint  string // host:port; empty: s3.amazonaws.com
	Region    string // empty: us-east-1; the server is never asked for a bucket's region
	AccessKey string // empty: requests are not signed
	SecretKey string
	Plain     bool // HTTP instead of HTTPS

	Transport http.RoundTripper // nil: minio's
}

// String leaves the secrets out.
func (o S3Options) String() string { return fmt.Sprintf("s3 at %s, region %s", o.Endpoint, o.Region) }

// GoString leaves the secrets out.
func (o S3Options) GoString() string { return o.String() }

// S3 is a bucket, or what is below a prefix in one.
type S3 struct {
	core           *minio.Core
	bucket, prefix string
}

// NewS3 returns the store of a bucket; it sends nothing.
func NewS3(bucket, prefix string, o *S3Options) (*S3, error) {
	if bucket == "" {
		return nil, errors.New("store: the bucket's name is empty: expected s3://bucket/prefix")
	}
	endpoint, region := o.Endpoint, o.Region
	if endpoint == "" {
		endpoint = "s3.amazonaws.com"
	}
	if region == "" {
		region = "us-east-1"
	}
	core, err := minio.NewCore(endpoint, &minio.Options{
		Creds: credentials.NewStaticV4(o.AccessKey, o.SecretKey, ""), Secure: !o.Plain, Region: region,
		BucketLookup: minio.BucketLookupPath, MaxRetries: 1, Transport: o.Transport,
	})
	if err != nil {
		return nil, fmt.Errorf("store: s3 at %s: %w", endpoint, err)
	}
	if prefix = strings.Trim(prefix, "/"); prefix != "" {
		prefix += "/"
	}
	return &S3{core, bucket, prefix}, nil
}

// answered returns the server's answer in err, and false if err has none, such as when
// the connection broke.
func answered(err error) (minio.ErrorResponse, bool) {
	var r minio.ErrorResponse
	ok := errors.As(err, &r) && r.StatusCode != 0
	return r, ok
}

// s3Error returns err with the outcome that it stands for.
func s3Error(ctx context.Context, key string, err error) error {
	if err == nil {
		return nil
	}
	r, ok := answered(err)
	if !ok {
		return netError(ctx, key, err)
	}
	e := fromHTTP(r.StatusCode, key, "")
	var s *outcome.Error
	if errors.As(e, &s) {
		s.Detail += fmt.Sprintf(": %.80q", r.Code)
	}
	return e
}

// Open implements Store.
func (s *S3) Open(ctx context.Context, key string, get Get) (*Object, error) {
	var o minio.GetObjectOptions
	if get.Off > 0 || get.Len > 0 {
		o.Set("Range", rangeHeader(get))
	}
	if get.IfMatch != "" {
		if err := o.SetMatchETag(get.IfMatch); err != nil {
			return nil, outcome.Errorf(outcome.BadFormat, "%s: ETag %q: %v", plain.Name(key), get.IfMatch, err)
		}
	}
	body, info, header, err := s.core.GetObject(ctx, s.bucket, s.prefix+key, o)
	if err != nil {
		return nil, s3Error(ctx, key, err)
	}
	size := info.Size
	if r := header.Get("Content-Range"); r != "" {
		size = totalOf(r)
	}
	return &Object{body, size, info.LastModified, info.ETag}, nil
}

func (o *PutOptions) s3() minio.PutObjectOptions {
	var out minio.PutObjectOptions
	if o != nil {
		out.UserMetadata = o.Metadata
		if o.Exclusive {
			out.SetMatchETagExcept("*")
		}
	}
	return out
}

// exists returns ErrExists in place of an err that says that an Exclusive object is
// there.
func exists(err error, key string, o *PutOptions) error {
	if o != nil && o.Exclusive && outcome.Of(err) == outcome.Changed {
		return fmt.Errorf("%w: %s", ErrExists, plain.Name(key))
	}
	return err
}

// putAttempts bounds how often an object or a part is sent without getting an answer. A
// server that refuses an object may close the connection before it has read all of it:
// the answer, which says why, is then lost. The next attempt gets it.
const putAttempts = 6

// Put implements Store. When a connection breaks, it sends again an r that it can seek
// and read at any offset. With Exclusive, ErrExists may then be about the object that an
// earlier attempt has written.
func (s *S3) Put(ctx context.Context, key string, r io.Reader, size int64, o *PutOptions) error {
	err := attempts(ctx, r, size, func(r io.Reader) error {
		_, err := s.core.PutObject(ctx, s.bucket, s.prefix+key, r, size, "", "", o.s3())
		return err
	})
	return exists(s3Error(ctx, key, err), key, o)
}

// attempts calls send with the next size bytes of r: once if r cannot be read again, else
// until the server has answered, at most putAttempts times.
func attempts(ctx context.Context, r io.Reader, size int64, send func(io.Reader) error) error {
	whole, again := section(r, size)
	for attempt := 1; ; attempt++ {
		if again { // the transport may still read the reader of the last attempt
			r = io.NewSectionReader(whole, 0, size)
		}
		err := send(r)
		_, ok := answered(err)
		if err == nil || ok || !again || attempt == putAttempts || ctx.Err() != nil {
			return err
		}
	}
}

// section returns the next size bytes of an r that can be read at any place.
func section(r io.Reader, size int64) (*io.SectionReader, bool) {
	at, ok := r.(interface {
		io.Seeker
		io.ReaderAt
	})
	if !ok {
		return nil, false
	}
	start, err := at.Seek(0, io.SeekCurrent)
	if err != nil {
		return nil, false
	}
	return io.NewSectionReader(at, start, size), true
}

// List implements Store.
func (s *S3) List(ctx context.Context, prefix string) ([]Entry, error) {
	var out []Entry
	for o := range s.core.ListObjectsIter(ctx, s.bucket, minio.ListObjectsOptions{Prefix: s.prefix + prefix, Recursive: true}) {
		if o.Err != nil {
			return nil, s3Error(ctx, prefix, o.Err)
		}
		out = append(out, Entry{strings.TrimPrefix(o.Key, s.prefix), o.Size, o.LastModified})
	}
	return out, nil
}

// Delete implements Store.
func (s *S3) Delete(ctx context.Context, key string) error {
	return s3Error(ctx, key, s.core.RemoveObject(ctx, s.bucket, s.prefix+key, minio.RemoveObjectOptions{}))
}

// CreateUpload implements Uploader.
func (s *S3) CreateUpload(ctx context.Context, key string, o *PutOptions) (string, error) {
	var create minio.PutObjectOptions // the condition is checked at the end
	if o != nil {
		create.UserMetadata = o.Metadata
	}
	id, err := s.core.NewMultipartUpload(ctx, s.bucket, s.prefix+key, create)
	return id, s3Error(ctx, key, err)
}

// UploadPart implements Uploader. When a connection breaks, it sends again an r that it
// can seek and read at any offset; the server keeps the last part of a number.
func (s *S3) UploadPart(ctx context.Context, key, id string, n int, r io.Reader, size int64) (string, error) {
	var p minio.ObjectPart
	err := attempts(ctx, r, size, func(r io.Reader) (err error) {
		p, err = s.core.PutObjectPart(ctx, s.bucket, s.prefix+key, id, n, r, size, minio.PutObjectPartOptions{})
		return err
	})
	return p.ETag, s3Error(ctx, key, err)
}

// CompleteUpload implements Uploader.
func (s *S3) CompleteUpload(ctx context.Context, key, id string, etags []string, o *PutOptions) error {
	parts := make([]minio.CompletePart, len(etags))
	for i, tag := range etags {
		parts[i] = minio.CompletePart{PartNumber: i + 1, ETag: tag}
	}
	_, err := s.core.CompleteMultipartUpload(ctx, s.bucket, s.prefix+key, id, parts, o.s3())
	return exists(s3Error(ctx, key, err), key, o)
}

// AbortUpload implements Uploader.
func (s *S3) AbortUpload(ctx context.Context, key, id string) error {
	return s3Error(ctx, key, s.core.AbortMultipartUpload(ctx, s.bucket, s.prefix+key, id))
}

// Uploads implements Uploader.
func (s *S3) Uploads(ctx context.Context, prefix string) ([]string, error) {
	var ids []string
	key, id := "", "" // the last upload of the page before
	for {
		page, err := s.core.ListMultipartUploads(ctx, s.bucket, s.prefix+prefix, key, id, "", 1000)
		if err != nil {
			return nil, s3Error(ctx, prefix, err)
		}
		for _, u := range page.Uploads {
			ids = append(ids, u.UploadID)
		}
		if !page.IsTruncated {
			return ids, nil
		}
		if page.NextKeyMarker == key && page.NextUploadIDMarker == id {
			return nil, outcome.Errorf(outcome.BadFormat,
				"%s: the list of uploads says that more follow after %q, upload %q, which began it", plain.Name(prefix), key, id)
		}
		key, id = page.NextKeyMarker, page.NextUploadIDMarker
	}
}
