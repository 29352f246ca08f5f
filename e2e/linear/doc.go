// Package linear holds the metadata stores in Redis and in databases to what it promises about one
// record: that all writers together, in several processes, see one order of events.
// The processes note what they asked and what they were told, and a checker looks
// for an order that explains all of it; there must be one.
package linear
