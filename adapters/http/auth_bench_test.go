package httpapi

import (
	"net/http/httptest"
	"testing"
)

// BenchmarkCredentials is what it costs to know who asks, by one of five users, from many
// goroutines at the same time.
func BenchmarkCredentials(b *testing.B) {
	h := newAPI(b, &fake{})
	bearer, _ := loginAs(b, h, "admin")
	for name, header := range map[string]string{"password": as("admin"), "token": bearer} {
		b.Run(name, func(b *testing.B) {
			q := httptest.NewRequestWithContext(b.Context(), "GET", "/", nil)
			q.Header.Set("Authorization", header)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := h.api.identify(q, provenCallers); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}
