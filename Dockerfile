# Two stages: the program is built with a C toolchain (librdkafka), and runs without one, as a user with no rights.
#
#   docker build -t tickwheel .
#   docker run -p 127.0.0.1:7420:7420 -v tickwheel-data:/var/lib/tickwheel tickwheel
#
# Other containers reach it by a name: add -e TICKWHEEL_ALLOWED_HOSTS=NAME, else requests for that name get 403.
FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo build --release --locked --features cluster --bin tickwheel

FROM debian:bookworm-slim
# Authorities, for tasks over https, and OpenSSL, for Kafka.
RUN apt-get update && apt-get install --yes --no-install-recommends ca-certificates libssl3 && rm -rf /var/lib/apt/lists/*
# A new volume takes over owner and mode of the directory that it is mounted on, so it belongs to the user before it is one.
RUN useradd --system --user-group --uid 10001 tickwheel \
    && install --directory --owner=tickwheel --group=tickwheel --mode=0700 /var/lib/tickwheel
COPY --from=build /src/target/release/tickwheel /usr/local/bin/tickwheel
COPY --from=build /src/LICENSE /usr/share/doc/tickwheel/LICENSE
ENV TICKWHEEL_DATA_DIR=/var/lib/tickwheel
WORKDIR /var/lib/tickwheel
VOLUME /var/lib/tickwheel
USER tickwheel
EXPOSE 7420
HEALTHCHECK --interval=5s --timeout=3s CMD ["tickwheel", "healthcheck"]
ENTRYPOINT ["tickwheel"]
# Within a container the address says nothing: whoever the port is published to reaches it. From the first API key on, keys are
# asked for all the same (docs/security.md).
CMD ["serve", "--listen", "0.0.0.0:7420", "--insecure"]
