// Package status is the kubelet's status manager: it owns what the API server has been told about each pod of this node.
//
// The pod workers report every new status; the Reporter keeps the newest one per pod and writes it at once, what changed only.
// One pod's writes happen one after another and always carry the newest report; different pods are written in parallel,
// bounded by Config.Parallel. A write that fails is tried again with back-off until it succeeds or the pod is gone.
//
//	           Report                     taken by a worker                 written
//	(unknown) ───────► dirty(version n) ───────────────────► writing(n) ──────────────► told(n)
//	                     ▲    ▲  Report (n+1)                   │ failed: back-off        │
//	                     │    └─────────────────────────────────┘                         │
//	                     └──── Report (n+1), or Refresh found that the API says else ◄────┘
//	   told(n) and Finished and deletion asked ───► API object deleted (grace 0, this UID only) ───► (forgotten)
//
// Nothing is persisted: after a restart the workers report again, and a report that says what the API already has writes
// nothing.
package status
