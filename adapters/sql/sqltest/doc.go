// Package sqltest gives tests database servers of their own, on free ports of the
// loopback interface: PostgreSQL and MariaDB from the programs that are installed,
// run as a user without rights. They can be killed, restarted and frozen, and a proxy
// in front of them loses what is sent. It imports no driver.
package sqltest
