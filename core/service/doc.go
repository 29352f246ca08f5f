// Package service runs a coordinator: for each group it drives an engine from
// one goroutine and carries its effects out against the store; for streams it
// takes the steps that their records leave open. It decides nothing that the
// pure packages can decide.
//
// Any number of coordinators may run on one store; none is special.
package service
