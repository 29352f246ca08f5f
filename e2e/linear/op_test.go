package linear

// The kinds of calls.
const (
	callLoad   = "load"
	callSave   = "save"
	callRenew  = "renew"
	callDelete = "delete"
)

// The outcomes of a call.
const (
	outcomeDone     = "done"
	outcomeConflict = "conflict"
	// outcomeUnknown: it may have been carried out, or may still be.
	outcomeUnknown = "unknown"
)

// at is a version of a record without the instance: that belongs to the server.
type at struct {
	Revision int64
	Nonce    string
}

// op is one call on the record of one group, which has one incarnation with a stamp.
// Call and Return are nanoseconds of the machine's clock.
type op struct {
	ID      string
	Key     int
	Kind    string
	Call    int64
	Return  int64
	Outcome string

	// Expected is what a write relies on, and Relied the stamp, if Relies.
	Expected at
	Relies   bool
	Relied   string
	// Nonce is the save's own. Stamp is what a save or a renewal writes, nothing if
	// it is empty.
	Nonce, Stamp string

	// Seen and SeenStamp are what a load found, and Body what it read.
	Seen      at
	SeenStamp string
	Body      string
}
