// Package blackbox judges the system from outside: real coordinators, producers
// and consumers as processes of their own, on a real redis-server. It contains
// tests only. They build the command once and know nothing of its inside; what
// they claim they read in the output of the processes, in the HTTP API, and in
// Redis.
//
// RSC_TEST_FAST=1 skips everything here. Without redis-server the tests that
// need one skip and say so; with CI=true they fail.
package blackbox
