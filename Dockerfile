# Two stages: the program is built with a C toolchain (librdkafka), and runs without one, without a shell's rights.
FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo build --release --locked --bin tickwheel

FROM debian:bookworm-slim
RUN useradd --system --uid 10001 tickwheel
COPY --from=build /src/target/release/tickwheel /usr/local/bin/tickwheel
USER tickwheel
EXPOSE 7420
HEALTHCHECK --interval=5s --timeout=3s CMD ["tickwheel", "healthcheck"]
ENTRYPOINT ["tickwheel"]
CMD ["serve", "--listen", "0.0.0.0:7420"]
