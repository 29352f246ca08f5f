package port_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/port"
)

// What audits are read by: the names of the fields, and null for what there is not.
func TestAuditEntryAsJSON(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 80_000_000, time.UTC)
	tests := []struct {
		name  string
		entry port.AuditEntry
		want  string
	}{
		{
			"as little as there can be",
			port.AuditEntry{Timestamp: at, CoordinatorID: "c-1", Action: "CREATE_STREAM", Outcome: port.AuditUnauthorized, Status: 401, Method: "POST", Path: "/x"},
			`{"timestamp":"2026-03-04T05:06:07.08Z","coordinatorId":"c-1","action":"CREATE_STREAM","outcome":"UNAUTHORIZED","status":401,"principal":null,"roles":[],` +
				`"method":"POST","path":"/x","queryString":null,"route":null,"streamPrefix":null,"consumerGroup":null,"memberId":null,"reshardingId":null,"requestId":null,` +
				`"requestedBy":null,"reason":null,"clientAddress":null,"forwardedFor":null,"userAgent":null,"durationMs":0,"requestBodySha256":null,"requestSummary":{}}`,
		},
		{
			"everything",
			port.AuditEntry{
				Timestamp: at, Duration: 12*time.Millisecond + 900*time.Microsecond, CoordinatorID: "c-1", Action: "DELETE_GROUP", Outcome: port.AuditSuccess, Status: 200,
				Principal: "ops", Roles: []string{"WRITE"}, Method: "DELETE", Path: "/p", Query: "a=b", Route: "/{p}",
				StreamPrefix: "orders", ConsumerGroup: "billing", MemberID: "m", ReshardingID: "r-1", RequestID: "q-1", RequestedBy: "on-call", Reason: "done",
				ClientAddress: "10.0.0.1", ForwardedFor: "10.9.9.9", UserAgent: "curl", BodySHA256: "00ff", Summary: map[string]string{"force": "true"},
			},
			`{"timestamp":"2026-03-04T05:06:07.08Z","coordinatorId":"c-1","action":"DELETE_GROUP","outcome":"SUCCESS","status":200,"principal":"ops","roles":["WRITE"],` +
				`"method":"DELETE","path":"/p","queryString":"a=b","route":"/{p}","streamPrefix":"orders","consumerGroup":"billing","memberId":"m","reshardingId":"r-1","requestId":"q-1",` +
				`"requestedBy":"on-call","reason":"done","clientAddress":"10.0.0.1","forwardedFor":"10.9.9.9","userAgent":"curl","durationMs":12,"requestBodySha256":"00ff","requestSummary":{"force":"true"}}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := json.Marshal(tt.entry)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}
