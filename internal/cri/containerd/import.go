package containerd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"time"

	contentapi "github.com/containerd/containerd/api/services/content/v1"
	leasesapi "github.com/containerd/containerd/api/services/leases/v1"
	transferapi "github.com/containerd/containerd/api/services/transfer/v1"
	"github.com/containerd/containerd/api/types"
	transfertypes "github.com/containerd/containerd/api/types/transfer"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/containerd/v2/core/streaming"
	"github.com/containerd/containerd/v2/core/streaming/proxy"
	tstreaming "github.com/containerd/containerd/v2/core/transfer/streaming"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	"github.com/containerd/typeurl/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	criNamespace = "k8s.io" // containerd's namespace for what the CRI sees
	managedLabel = "io.cri-containerd.image"
	pinnedLabel  = "io.cri-containerd.pinned"
	snapshotter  = "overlayfs"
	importLimit  = 10 * time.Minute
	seenLimit    = 10 * time.Second // for the CRI to notice an imported image
)

// Import reads an OCI or Docker archive, possibly compressed, and makes its images, for this machine's platform, known under the names
// that the archive gives them. It returns those names once the CRI sees them. containerd's transfer service does the work, so that
// neither its client library nor image handling is part of this process.
func (c *Client) Import(ctx context.Context, archive io.Reader) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, importLimit)
	defer cancel()
	names, err := c.leased(namespaces.WithNamespace(ctx, criNamespace), archive)
	// A server without the streaming service ends the first stream at once, which its sender sees as EOF.
	if status.Code(err) == codes.Unimplemented || errdefs.IsNotImplemented(err) || errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("the runtime at %s is not containerd 2 and cannot import image archives: push to a registry instead", c.endpoint)
	}
	if err != nil {
		return nil, fmt.Errorf("importing images: %s", status.Convert(err).Message())
	}
	if len(names) == 0 {
		return nil, errors.New("importing images: the archive gives no image a name: save it by its full name with a tag, such as registry/name:tag")
	}
	for _, name := range names {
		if err := c.awaitImage(ctx, name); err != nil {
			return names, err
		}
	}
	return names, nil
}

// leased imports under a lease: without one, containerd's garbage collector, which also runs shortly after a start, takes away the
// streams and the content of an import that is under way.
func (c *Client) leased(ctx context.Context, archive io.Reader) ([]string, error) {
	service := leasesapi.NewLeasesClient(c.conn)
	lease, err := service.Create(ctx, &leasesapi.CreateRequest{
		ID: tstreaming.GenerateID("podo-import"),
		// Should this process end here, the collector takes the lease itself.
		Labels: map[string]string{"containerd.io/gc.expire": time.Now().Add(2 * importLimit).Format(time.RFC3339)},
	})
	if err != nil {
		return nil, err
	}
	names, err := c.transfer(leases.WithLease(ctx, lease.GetLease().GetID()), archive)
	_, end := service.Delete(context.WithoutCancel(ctx), &leasesapi.DeleteRequest{ID: lease.GetLease().GetID()})
	return names, errors.Join(err, end)
}

func (c *Client) transfer(ctx context.Context, archive io.Reader) ([]string, error) {
	creator := proxy.NewStreamCreator(c.conn)
	// The receiver's context ends the stream's goroutines, on success too.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	input := tstreaming.GenerateID("import")
	stream, err := creator.Create(ctx, input)
	if err != nil {
		return nil, err
	}
	tstreaming.SendStream(ctx, archive, stream)
	source, err := anyOf(&transfertypes.ImageImportStream{Stream: input})
	if err != nil {
		return nil, err
	}
	platform := &types.Platform{OS: "linux", Architecture: runtime.GOARCH}
	target, err := anyOf(&transfertypes.ImageStore{
		// The label makes the CRI call the image pinned: a kubelet that collected it could not pull it again. It also outlives a
		// later pull under the same name.
		Labels:    map[string]string{managedLabel: "managed", pinnedLabel: "pinned"},
		Platforms: []*types.Platform{platform},
		// An archive may list platforms whose content it does not hold.
		AllMetadata: true,
		// Names come from the archive; the prefix is for those that are only a tag.
		ExtraReferences: []*transfertypes.ImageReference{{Name: "import", IsPrefix: true, AllowOverwrite: true}},
		Unpacks:         []*transfertypes.UnpackConfiguration{{Platform: platform, Snapshotter: snapshotter}},
	})
	if err != nil {
		return nil, err
	}
	report := tstreaming.GenerateID("progress")
	progress, err := creator.Create(ctx, report)
	if err != nil {
		return nil, err
	}
	saved := make(chan []string, 1)
	go func() { saved <- savedNames(progress) }()

	_, err = transferapi.NewTransferClient(c.conn).Transfer(ctx, &transferapi.TransferRequest{
		Source: source, Destination: target, Options: &transferapi.TransferOptions{ProgressStream: report},
	})
	if err != nil {
		return nil, err
	}
	select {
	case names := <-saved:
		return names, nil
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

// savedNames reads progress to its end, which the server sends after the last image, and returns the images that were stored.
func savedNames(stream streaming.Stream) []string {
	var names []string
	for {
		a, err := stream.Recv()
		if err != nil {
			return names
		}
		v, err := typeurl.UnmarshalAny(a)
		if err != nil {
			continue
		}
		if p, ok := v.(*transfertypes.Progress); ok && p.Event == "saved" && !slices.Contains(names, p.Name) {
			names = append(names, p.Name)
		}
	}
}

func anyOf(v any) (*anypb.Any, error) {
	a, err := typeurl.MarshalAny(v)
	if err != nil {
		return nil, err
	}
	return &anypb.Any{TypeUrl: a.GetTypeUrl(), Value: a.GetValue()}, nil
}

// Fetching is how much of what containerd is fetching now it has, of all pulls together. Layers that are whole, or not begun, are not
// in it.
func (c *Client) Fetching(ctx context.Context) (done, total int64, err error) {
	ctx, cancel := context.WithTimeout(namespaces.WithNamespace(ctx, criNamespace), callLimit)
	defer cancel()
	r, err := contentapi.NewContentClient(c.conn).ListStatuses(ctx, &contentapi.ListStatusesRequest{})
	for _, s := range r.GetStatuses() {
		done += s.GetOffset()
		total += s.GetTotal()
	}
	return done, total, err
}

// awaitImage waits until the CRI knows an image that containerd has stored. It learns of it by an event inside containerd, which has no
// counterpart outside; so this asks again, briefly.
func (c *Client) awaitImage(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, seenLimit)
	defer cancel()
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		img, err := c.ImageStatus(ctx, &runtimev1.ImageSpec{Image: name})
		if err != nil || img != nil {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return fmt.Errorf("image %s was imported, but the runtime does not show it", name)
		}
	}
}
