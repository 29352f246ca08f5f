// Package faultkit gives suites the processes and servers that they try, and does to
// them what happens to processes and servers.
//
// A [Process] is a program under test: [Run] or [Command.Start] starts one, [RunSelf]
// the test binary as another program of its suite. It can be killed, frozen and asked
// to end, and its log is there to be read. What several of them do they write to one
// [Journal]. Coordinators are in the package rsctest.
//
// A [Kind] is a server as people run it: Redis 7.0, Redis 8.0, Valkey 9, a Redis
// Cluster of 7.0. Kind.Start starts one of its own for a test, on free ports of
// 127.0.0.1 and with a folder of its own. Its nodes can be killed, frozen,
// restarted with or without what they held, emptied, failed over, and relieved
// of their slots. A [Proxy] in front of a node loses exactly the replies that a
// test wants lost.
//
// All processes end with their test, by their own process id, and on Linux also
// when the test process dies.
package faultkit
