package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"podo.dev/podo/internal/daemon"
	"podo.dev/podo/internal/daemon/boot"
	"podo.dev/podo/internal/daemon/config"
	"podo.dev/podo/internal/gcroom"
)

// defaultConfigFile is read when it exists and --config is not given.
const defaultConfigFile = "/etc/podo/config.yaml"

// bootFD, when set in the environment, is the number of the pipe on which a server reports its boot to `podo up`.
const bootFD = "PODO_BOOT_FD"

func newServer() *cobra.Command {
	cfg := config.DefaultServer()
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Run the control plane and a node in the foreground",
		Long: `Run the control plane and a node in the foreground, until interrupted.

Stopping the server (Ctrl-C, TERM, kill -9) never stops containers: the next start takes them over. ` + "`podo down`" + ` stops them too.
Every flag can stand in a YAML file under its name (--config, default ` + defaultConfigFile + ` when that exists); a flag given
on the command line wins.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.DataDir = dataDir(cmd)
			cfg.Flags = told(cmd.Flags())
			if err := cfg.Complete(); err != nil {
				return err
			}
			report, err := begin()
			if err != nil {
				return err
			}
			return daemon.Run(cmd.Context(), cfg, Version, report, cmd.ErrOrStderr())
		},
	}
	serverFlags(cmd.Flags(), &cfg)
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error { return readConfigFile(cmd) }
	return cmd
}

// serverFlags are shared by `server` and `up`, which hands them on.
func serverFlags(f *pflag.FlagSet, c *config.Server) {
	f.IntVar(&c.HTTPSPort, "https-port", c.HTTPSPort, "port of the API server, on loopback and the node's address")
	f.StringSliceVar(&c.TLSSANs, "tls-san", c.TLSSANs, "further names or addresses for the API server's certificate")
	f.StringVar(&c.PodCIDR, "pod-cidr", c.PodCIDR, "addresses of the pods of the server's own node")
	f.StringVar(&c.ClusterCIDR, "cluster-cidr", c.ClusterCIDR,
		"addresses of all nodes' pods; each node gets a range as wide as --pod-cidr (default: the /16 around that)")
	f.DurationVar(&c.NodeMonitorGrace, "node-monitor-grace-period", c.NodeMonitorGrace, "how long a node may be silent before it counts as lost")
	f.StringVar(&c.ServiceCIDR, "service-cidr", c.ServiceCIDR, "addresses of services")
	f.StringVar(&c.ServiceNodePortRange, "service-node-port-range", c.ServiceNodePortRange, "ports of the node that services of type NodePort get")
	f.StringSliceVar(&c.EtcdEndpoints, "etcd-endpoints", c.EtcdEndpoints, "external etcd instead of the embedded member (https://host:2379,...)")
	f.StringVar(&c.EtcdCAFile, "etcd-cafile", c.EtcdCAFile, "CA certificate of the external etcd")
	f.StringVar(&c.EtcdCertFile, "etcd-certfile", c.EtcdCertFile, "client certificate for the external etcd")
	f.StringVar(&c.EtcdKeyFile, "etcd-keyfile", c.EtcdKeyFile, "key of the client certificate")
	f.StringVar(&c.AdmissionControlConfigFile, "admission-control-config-file", c.AdmissionControlConfigFile,
		"AdmissionConfiguration v1 file: the default pod security levels, and which resources need a ResourceQuota")
	f.StringVar(&c.SchedulerConfig, "scheduler-config", c.SchedulerConfig, "KubeSchedulerConfiguration v1 file: profiles, plug-ins, weights")
	f.BoolVar(&c.DisableScheduler, "disable-scheduler", c.DisableScheduler, "run no scheduler: pods wait for one of your own to bind them")
	f.StringVar(&c.TokenAuthFile, "token-auth-file", c.TokenAuthFile, "CSV file of static bearer tokens: token,user,uid,\"group1,group2\"")
	f.StringSliceVar(&c.ServiceAccountIssuers, "service-account-issuer", c.ServiceAccountIssuers, "issuer of ServiceAccount tokens; further ones are accepted, not used")
	f.StringSliceVar(&c.APIAudiences, "api-audiences", c.APIAudiences, "audiences by which tokens name the API server (default: the issuer)")
	f.StringVar(&c.AnonymousAuth, "anonymous-auth", c.AnonymousAuth,
		"what requests without credentials may ask for: health (/livez, /readyz, /healthz), true (what roles allow) or false (nothing)")
	f.StringVar(&c.Audit.PolicyFile, "audit-policy-file", c.Audit.PolicyFile, "audit Policy v1 file: which requests are recorded (default: none)")
	f.StringVar(&c.Audit.LogPath, "audit-log-path", c.Audit.LogPath, "file for the audit events, one JSON line each; - is standard output")
	f.IntVar(&c.Audit.LogMaxAge, "audit-log-maxage", c.Audit.LogMaxAge, "days that rotated audit files are kept (0: for ever)")
	f.IntVar(&c.Audit.LogMaxBackups, "audit-log-maxbackup", c.Audit.LogMaxBackups, "how many rotated audit files are kept (0: all)")
	f.IntVar(&c.Audit.LogMaxSize, "audit-log-maxsize", c.Audit.LogMaxSize, "megabytes at which the audit file is rotated (0: never)")
	f.BoolVar(&c.Audit.LogCompress, "audit-log-compress", c.Audit.LogCompress, "compress rotated audit files")
	nodeFlags(f, &c.Node)
}

// nodeFlags are those of every node, a server's own and an agent's.
func nodeFlags(f *pflag.FlagSet, c *config.Node) {
	f.String("config", "", "YAML file with the same keys as these flags (default "+defaultConfigFile+" when it exists)")
	f.IntVar(&c.KubeletPort, "kubelet-port", c.KubeletPort, "port of the kubelet (its loopback health port is this minus 2)")
	f.StringVar(&c.NodeName, "node-name", c.NodeName, "name of the node (default: the host's name)")
	f.StringVar(&c.NodeIP, "node-ip", c.NodeIP, "address of the node (default: that of the default route)")
	f.StringVar(&c.KubeletConfig, "kubelet-config", c.KubeletConfig, "KubeletConfiguration v1beta1 file")
	f.StringVar(&c.KubeletConfigDir, "kubelet-config-dir", c.KubeletConfigDir, "folder of further such files, *.conf, merged over it in the order of their names")
	f.StringVar(&c.CredentialProviderConfig, "image-credential-provider-config", c.CredentialProviderConfig,
		"CredentialProviderConfig file, or a folder of such: the plug-ins that provide credentials for registries")
	f.StringVar(&c.CredentialProviderBinDir, "image-credential-provider-bin-dir", c.CredentialProviderBinDir, "folder of the credential provider plug-ins")
	f.StringVar(&c.ContainerRuntimeEndpoint, "container-runtime-endpoint", c.ContainerRuntimeEndpoint,
		"another CRI runtime instead of the embedded containerd (unix:///run/...)")
	f.IntVarP(&c.Verbosity, "v", "v", c.Verbosity, "log verbosity: 0 normal, 2 more, 4 one line for every stage of every pod")
	f.StringVar(&c.LogFormat, "log-format", c.LogFormat, "text or json")
}

// readConfigFile sets every flag that the file names and the command line does not.
func readConfigFile(cmd *cobra.Command) error {
	path, _ := cmd.Flags().GetString("config")
	explicit := path != ""
	if !explicit {
		path = defaultConfigFile
	}
	content, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) && !explicit {
		return nil
	}
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	var values map[string]any
	if err := yaml.UnmarshalStrict(content, &values); err != nil {
		return fmt.Errorf("--config %s: %w", path, err)
	}
	for key, value := range values {
		flag := cmd.Flags().Lookup(key)
		if flag == nil || key == "config" || key == "help" {
			return fmt.Errorf("--config %s: unknown key %q (the keys are the flags of `%s --help`)", path, key, cmd.CommandPath())
		}
		if flag.Changed {
			continue
		}
		text, err := flagText(value)
		if err != nil {
			return fmt.Errorf("--config %s: %s: %w", path, key, err)
		}
		if err := cmd.Flags().Set(key, text); err != nil {
			return fmt.Errorf("--config %s: %s: %w", path, key, err)
		}
	}
	return nil
}

func flagText(value any) (string, error) {
	switch v := value.(type) {
	case []any:
		parts := make([]string, len(v))
		for i, item := range v {
			text, err := flagText(item)
			if err != nil {
				return "", err
			}
			parts[i] = text
		}
		return strings.Join(parts, ","), nil
	case map[string]any, nil:
		return "", fmt.Errorf("want a value or a list of values, got %v", v)
	case float64:
		return fmt.Sprintf("%v", int64(v)), nil
	default:
		return fmt.Sprint(v), nil
	}
}

// told are all flags with their values, but for secrets.
func told(flags *pflag.FlagSet) map[string]string {
	out := map[string]string{}
	flags.VisitAll(func(f *pflag.Flag) {
		out[f.Name] = f.Value.String()
		if f.Name == "token" && out[f.Name] != "" {
			out[f.Name] = "[redacted]"
		}
	})
	return out
}

// begin is the start of a process that stays, a server or an agent: at rest it holds little.
func begin() (*boot.Report, error) {
	gcroom.Keep()
	gcroom.UnmapAtRest()
	return bootReport()
}

func bootReport() (*boot.Report, error) {
	var out io.Writer
	if n := os.Getenv(bootFD); n != "" {
		var fd uintptr
		if _, err := fmt.Sscan(n, &fd); err != nil {
			return nil, fmt.Errorf("%s=%q is not a file descriptor", bootFD, n)
		}
		os.Unsetenv(bootFD)
		out = os.NewFile(fd, "boot")
	}
	return boot.NewReport(out), nil
}
