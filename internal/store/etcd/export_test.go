package etcd

// Tell makes e believe that a watch was told of rev.
func Tell(e *Embedded, rev int64) { e.conn.Load().local.saw(rev) }
