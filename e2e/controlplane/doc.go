// Package controlplane tries several coordinators on one store on faults of real
// processes and servers, and watches who reads which shard. It contains tests only.
//
// The members are processes that use the public API of the consumer module. They
// read nothing: they write to one journal, again and again, that they might have
// read a shard just then, and under which fencing token. From that journal it is
// judged whether a shard ever had two readers, whether a token went back, how long
// it took until all was in order again, and who was fenced without a reason.
//
// RSC_CONTROLPLANE=short runs the short form of each test, which is CI's, and
// RSC_CONTROLPLANE=long takes RSC_MINUTES for it; without it they are skipped.
// RSC_SEED repeats the choices of a run.
package controlplane
