// Package rsctest gives suites the command rsc, and coordinators of it, as processes
// that they can kill, freeze, start again and ask over HTTP.
//
// The command is built once in a run, when it is first needed, in the form that the
// image has it. A suite calls [Main] in its TestMain, [Start] for a coordinator on a
// free port, and [Program] where it runs another command of rsc.
package rsctest
