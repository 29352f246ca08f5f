// Package reshard changes the shard count of a stream while records flow, with real
// coordinators, consumers and producers as processes of their own, and keeps an account
// of every record. It contains tests only.
//
// TestCycle goes from 8 shards to 16, 4, 0 and 8 again, with a group that is slow, a
// consumer group that nobody reads with, streams of which Redis does not know the lag,
// producers that know an old route, and a kill -9 of a coordinator in each state.
// TestRollback takes changes back while records lie in added and in removed shards.
// TestChance leaves the counts, the rollbacks and the kills to chance.
// TestManyShards hands 900 added shards to ten members, and TestProvisioning watches
// heartbeats while a thousand shards are created.
//
// RSC_RESHARD=short runs the short form, which is CI's, and RSC_RESHARD=long the whole of
// it; without it the tests are skipped.
package reshard
