package server

import (
	"crypto/tls"
	"fmt"
	"sync/atomic"

	"github.com/redis-stream-coordinator/rsc/coordinator/internal/config"
)

// serverCertificate is the server's certificate, which can be replaced while it listens. A nil
// one stands for a server without TLS.
type serverCertificate struct {
	pair atomic.Pointer[tls.Certificate]
}

// newCertificate reads the files; without any it returns nil.
func newCertificate(files *config.ServerTLS) (*serverCertificate, error) {
	if files.CertFile == "" {
		return nil, nil //nolint:nilnil // no TLS is not an error
	}
	pair, err := readCertificate(files)
	if err != nil {
		return nil, err
	}
	c := new(serverCertificate)
	c.pair.Store(pair)
	return c, nil
}

func readCertificate(files *config.ServerTLS) (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(files.CertFile, files.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("server.tls: %w", err)
	}
	return &pair, nil
}

// config presents to each new connection the certificate of that moment.
func (c *serverCertificate) config() *tls.Config {
	if c == nil {
		return nil
	}
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.pair.Load(), nil },
	}
}
