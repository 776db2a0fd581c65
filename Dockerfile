# Three images from one build, each with one program: `docker build --target worker .`, and likewise
# starter and shop. None holds a secret; the worker's come from its environment when it runs.
# Images are pinned by exact tag. Pin them by digest, too, where you can look digests up.

FROM golang:1.26.8-bookworm AS build
WORKDIR /src
ENV CGO_ENABLED=0 GOTOOLCHAIN=local GOMODCACHE=/cache/modules GOCACHE=/cache/build
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/cache/modules go mod download
COPY . .
RUN --mount=type=cache,target=/cache/modules --mount=type=cache,target=/cache/build \
    go build -trimpath -ldflags '-s -w' -o /out/worker ./worker && \
    go build -trimpath -ldflags '-s -w' -o /out/starter ./starter && \
    go build -trimpath -ldflags '-s -w' -o /out/shop ./pipelines/orders/shop

# Alpine for its certificates, and for the wget that health checks use.
FROM alpine:3.24.2 AS base
RUN addgroup -S -g 10001 tranche && adduser -S -D -u 10001 -G tranche tranche
USER 10001:10001
WORKDIR /home/tranche

# The command line. It holds no data credentials.
FROM base AS starter
COPY --from=build /out/starter /usr/local/bin/starter
ENTRYPOINT ["/usr/local/bin/starter"]

# The shop API of the example pipeline orders.
FROM base AS shop
COPY --from=build /out/shop /usr/local/bin/shop
EXPOSE 8089
ENTRYPOINT ["/usr/local/bin/shop"]

# The worker: the default target.
FROM base AS worker
COPY --from=build /out/worker /usr/local/bin/worker
EXPOSE 9464
ENTRYPOINT ["/usr/local/bin/worker"]
