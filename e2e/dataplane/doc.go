// Package dataplane tries consumers and producers on faults of real servers and
// keeps an account of every record. It contains tests only.
//
// A scenario is a fault and what must come of it; TestScenarios runs each on
// every kind of server that it concerns, with a coordinator of its own, and
// prints a table: produced, lost, duplicated, out of order, recovery. Members that
// a fault kills or pauses are processes of their own; all of them use nothing but
// the public API of the modules consumer and producer.
//
// RSC_DATAPLANE=short runs the short form of each scenario, which is CI's, and
// RSC_DATAPLANE=long the whole of it; without it the scenarios are skipped.
package dataplane
