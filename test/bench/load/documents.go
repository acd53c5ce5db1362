package load

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
)

// Documents reads what a client reads to learn an API, over one connection and to the last byte: discovery as one document for each of
// the two roots, the index of OpenAPI v3 and every document in it, and OpenAPI v2. size is of all of them: unpacked, or as they came, when
// packed says that the client leaves the documents of OpenAPI as they are. As with lists, they are read and not kept: growing memory
// for them is no server's work.
func (c Cluster) Documents(ctx context.Context, packed bool) (took time.Duration, size int64, err error) {
	err = c.with(func(client *Client) error {
		// The connection is made before the time runs.
		if _, err := client.document(ctx, "/version", "application/json", false, io.Discard); err != nil {
			return err
		}
		began := time.Now()
		for _, root := range []string{"/api", "/apis"} {
			n, err := client.document(ctx, root, "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", false, io.Discard)
			if err != nil {
				return err
			}
			size += n
		}
		var body bytes.Buffer
		n, err := client.document(ctx, "/openapi/v3", "application/json", false, &body)
		if err != nil {
			return err
		}
		size += n
		var index struct {
			Paths map[string]struct {
				ServerRelativeURL string `json:"serverRelativeURL"`
			} `json:"paths"`
		}
		if err := json.Unmarshal(body.Bytes(), &index); err != nil {
			return err
		}
		const proto = "application/com.github.proto-openapi.spec.v%d@v1.0+protobuf"
		for _, p := range index.Paths {
			if n, err = client.document(ctx, p.ServerRelativeURL, fmt.Sprintf(proto, 3), packed, io.Discard); err != nil {
				return err
			}
			size += n
		}
		if n, err = client.document(ctx, "/openapi/v2", fmt.Sprintf(proto, 2), packed, io.Discard); err != nil {
			return err
		}
		size += n
		took = time.Since(began)
		return nil
	})
	return took, size, err
}

func (c *Client) document(ctx context.Context, path, accept string, packed bool, into io.Writer) (size int64, err error) {
	host, _, err := rest.DefaultServerUrlFor(c.config)
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, host.Scheme+"://"+host.Host+path, nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Accept", accept)
	if packed {
		req.Header.Set("Accept-Encoding", "gzip") // said by hand, it is the caller's to unpack
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	size, err = io.Copy(into, resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", path, resp.Status)
	}
	return size, err
}
