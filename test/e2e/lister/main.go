// Command lister is a program as users write them for inside a cluster: it finds the API server by what its container is told, shows its
// own token, and lists the pods of its namespace. The story tokens.txtar runs it.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "lister:", err)
		os.Exit(1)
	}
}

func run() error {
	config, err := rest.InClusterConfig()
	if err != nil {
		return err
	}
	namespace, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	if err != nil {
		return err
	}
	core, err := corev1.NewForConfig(config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	pods, err := core.Pods(string(namespace)).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var names []string
	for _, p := range pods.Items {
		names = append(names, p.Name)
	}
	fmt.Println(config.Host, "has in", string(namespace)+":", strings.Join(names, " "))
	return nil
}
