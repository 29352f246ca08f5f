# The coordinator and its command, as a static binary in an image with nothing
# else but the certificates of public authorities.
#
#   docker build --build-arg VERSION="$(git describe --tags --always)" -t redis-stream-coordinator .
#   docker run --rm -p 127.0.0.1:8080:8080 -e REDIS_URL=redis://my-redis:6379 \
#     -e REDIS_STREAM_COORDINATOR_ADMIN_PASSWORD=… redis-stream-coordinator
ARG GO_VERSION=1.26

FROM golang:${GO_VERSION} AS build
WORKDIR /src
ENV CGO_ENABLED=0 GOWORK=off GOFLAGS=-trimpath
# What is fetched depends on these files only, and is kept while they stay.
COPY core/go.mod core/
COPY adapters/redis/go.mod adapters/redis/go.sum adapters/redis/
COPY adapters/http/go.mod adapters/http/go.sum adapters/http/
COPY adapters/sql/go.mod adapters/sql/go.sum adapters/sql/
COPY consumer/go.mod consumer/go.sum consumer/
COPY producer/go.mod producer/go.sum producer/
COPY coordinator/go.mod coordinator/go.sum coordinator/
RUN cd coordinator && go mod download
COPY core core
COPY adapters adapters
COPY consumer consumer
COPY producer producer
COPY coordinator coordinator
ARG VERSION=container
RUN cd coordinator && go build -tags nomsgpack -ldflags "-s -w -X main.version=${VERSION}" -o /out/rsc ./cmd/rsc
RUN mkdir -p /out/etc/ssl/certs /out/etc/rsc \
 && cp /etc/ssl/certs/ca-certificates.crt /out/etc/ssl/certs/ \
 && cp coordinator/rsc.yaml /out/etc/rsc/

FROM scratch
LABEL org.opencontainers.image.title="Redis Stream Coordinator" \
      org.opencontainers.image.description="Coordinator of sharded Redis Streams: one reader per shard" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /out /
# The settings file shows every setting; the environment overrides it. A container
# is reached by others, so the documented default password is refused.
ENV RSC_CONFIG=/etc/rsc/rsc.yaml \
    SERVER_ADDRESS=:8080
USER 65532:65532
EXPOSE 8080
# Of the process alone: a restart brings no store back. Whether it can coordinate
# is what a load balancer asks, at /health/ready.
HEALTHCHECK --interval=10s --timeout=5s --start-period=40s --retries=3 CMD ["/rsc", "health", "--live"]
ENTRYPOINT ["/rsc"]
CMD ["server"]
