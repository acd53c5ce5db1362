package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletv1 "k8s.io/kubelet/config/v1"
	v1 "k8s.io/kubelet/pkg/apis/credentialprovider/v1"
	strictjson "sigs.k8s.io/json"
)

// execLimit bounds a plug-in: it may try a failed request again, but not forever.
const execLimit = time.Minute

// execute runs a plug-in: the request on its standard input, the response from its standard output.
func execute(ctx context.Context, program string, p kubeletv1.CredentialProvider, request v1.CredentialProviderRequest) (*v1.CredentialProviderResponse, error) {
	request.TypeMeta = metav1.TypeMeta{APIVersion: p.APIVersion, Kind: "CredentialProviderRequest"}
	in, err := json.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("failed to encode auth request: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, execLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, p.Args...)
	cmd.WaitDelay = time.Second // for children that hold its output open
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &stdout, &stderr
	cmd.Env = os.Environ()
	for _, e := range p.Env {
		cmd.Env = append(cmd.Env, e.Name+"="+e.Value)
	}
	err = cmd.Run()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("error execing credential provider plugin %s for image %s: %w: %s", p.Name, request.Image, err, stderr.String())
	}
	var response v1.CredentialProviderResponse
	strict, err := strictjson.UnmarshalStrict(stdout.Bytes(), &response)
	switch {
	case err != nil, len(strict) > 0, response.Kind != "CredentialProviderResponse" && response.APIVersion == p.APIVersion:
		return nil, errors.New("error decoding credential provider plugin response from stdout") // which may hold credentials
	case response.APIVersion != p.APIVersion:
		return nil, fmt.Errorf("apiVersion from credential plugin response did not match expected apiVersion:%s, actual apiVersion:%s", p.APIVersion, response.APIVersion)
	}
	return &response, nil
}
