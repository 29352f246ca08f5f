package server

import (
	"crypto/tls"
	"fmt"
	"slices"

	"github.com/redis-stream-coordinator/rsc/coordinator/internal/config"
)

// Reload takes over what next says and can be changed while the server runs, from the
// next request and the next connection on. It returns the keys of what was changed, and
// of what differs and needs a new start. The certificate is read again, too. The level of
// the log is for the caller to change. It may be called beside Run.
// Errors: what cannot be taken over; nothing is changed then.
func (s *Server) Reload(next config.Config) (changed, left []string, err error) {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	current := s.current
	changed, left = current.TakeOver(&next)
	// Each was valid by itself. Together they may not be: the old address with a password
	// that is only good for the new one.
	if err := current.Validate(); err != nil {
		return nil, nil, fmt.Errorf("with the settings that count from the next start on: %w", err)
	}
	access := current.Access()
	if err := access.Validate(); err != nil {
		return nil, nil, err
	}
	var pair *tls.Certificate
	if s.certificate != nil {
		if pair, err = readCertificate(&current.Server.TLS); err != nil {
			return nil, nil, err
		}
	}
	if err := s.coordinator.SetMaxShards(current.Coordinator.Limits.MaxShards); err != nil {
		return nil, nil, err
	}
	if err := s.api.SetAccess(access); err != nil {
		return nil, nil, err
	}
	if pair != nil {
		if !slices.Equal(pair.Certificate[0], s.certificate.pair.Load().Certificate[0]) {
			changed = append(changed, "server.tls (the certificate)")
		}
		s.certificate.pair.Store(pair)
	}
	s.current = current
	return changed, left, nil
}
