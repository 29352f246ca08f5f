// Package archtest holds core to its own architecture. It contains tests only,
// which read the source of core and refuse
//
//   - an import from outside the standard library and core, in tests too;
//   - an import against the direction of the layers;
//   - goroutines, channels, clocks, randomness and input or output in the pure
//     packages.
//
// It belongs to core, so that core proves itself wherever it is built alone.
// Every check is a function on parsed source, tried on small programs that
// break the rule before it is believed about the real ones.
package archtest
