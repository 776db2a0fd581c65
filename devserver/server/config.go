package server

import (
	"net"
	"strconv"
	"time"

	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/membership/static"
	"go.temporal.io/server/common/metrics"
	"go.temporal.io/server/common/primitives"
	"go.temporal.io/server/temporal"
)

// clusterName is the name `temporal server start-dev` uses. It is stored in the database, so equal
// names let either program open the other's file.
const clusterName = "active"

// newTemporal builds the server for options that have their defaults.
func newTemporal(o Options, ports Ports, sql *config.SQL) (temporal.Server, error) {
	return temporal.NewServer(
		temporal.WithConfig(temporalConfig(o, ports, sql)),
		temporal.ForServices(temporal.DefaultServices),
		temporal.WithStaticHosts(staticHosts(o, ports)),
		temporal.WithLogger(o.Logger),
		temporal.WithAuthorizer(authorization.NewNoopAuthorizer()),
		temporal.WithClaimMapper(func(*config.Config) authorization.ClaimMapper {
			return authorization.NewNoopClaimMapper()
		}),
		temporal.WithDynamicConfigClient(dynamicConfig(o.DynamicConfig)),
	)
}

// staticHosts tells every service where the others are. With it no service gossips: there are no
// membership ports, and no dead members in the database after a restart.
func staticHosts(o Options, ports Ports) map[primitives.ServiceName]static.Hosts {
	host := func(ip string, port int) static.Hosts { return static.SingleLocalHost(hostPort(ip, port)) }
	return map[primitives.ServiceName]static.Hosts{
		primitives.FrontendService: host(dialable(o.IP), ports.Frontend),
		primitives.HistoryService:  host(loopback, ports.History),
		primitives.MatchingService: host(loopback, ports.Matching),
		primitives.WorkerService:   host(loopback, ports.Worker),
	}
}

func temporalConfig(o Options, ports Ports, sql *config.SQL) *config.Config {
	frontend := hostPort(dialable(o.IP), ports.Frontend)
	var c config.Config
	c.Global.Membership = config.Membership{MaxJoinDuration: 30 * time.Second, BroadcastAddress: loopback}
	if ports.Metrics != 0 {
		c.Global.Metrics = &metrics.Config{Prometheus: &metrics.PrometheusConfig{
			ListenAddress: hostPort(o.IP, ports.Metrics),
			HandlerPath:   "/metrics",
		}}
	}
	c.Persistence = config.Persistence{
		DefaultStore:     sql.PluginName,
		VisibilityStore:  sql.PluginName,
		NumHistoryShards: 1, // fixed for the life of a database; `temporal server start-dev` has one too
		DataStores:       map[string]config.DataStore{sql.PluginName: {SQL: sql}},
	}
	c.ClusterMetadata = &cluster.Config{
		FailoverVersionIncrement: 10,
		MasterClusterName:        clusterName,
		CurrentClusterName:       clusterName,
		ClusterInformation: map[string]cluster.ClusterInformation{clusterName: {
			Enabled:                true,
			InitialFailoverVersion: 1,
			RPCAddress:             frontend,
		}},
	}
	c.DCRedirectionPolicy.Policy = "noop"
	c.Services = map[string]config.Service{
		string(primitives.FrontendService): {RPC: config.RPC{GRPCPort: ports.Frontend, HTTPPort: ports.HTTP, BindOnIP: o.IP}},
		string(primitives.HistoryService):  {RPC: config.RPC{GRPCPort: ports.History, BindOnIP: loopback}},
		string(primitives.MatchingService): {RPC: config.RPC{GRPCPort: ports.Matching, BindOnIP: loopback}},
		string(primitives.WorkerService):   {RPC: config.RPC{GRPCPort: ports.Worker, BindOnIP: loopback}},
	}
	const disabled = "disabled"
	c.Archival.History.State = disabled
	c.Archival.Visibility.State = disabled
	c.NamespaceDefaults.Archival.History.State = disabled
	c.NamespaceDefaults.Archival.Visibility.State = disabled
	c.PublicClient.HostPort = frontend
	return &c
}

func hostPort(ip string, port int) string { return net.JoinHostPort(ip, strconv.Itoa(port)) }
