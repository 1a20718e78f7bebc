import assert from "node:assert/strict";
import { test } from "node:test";
import { NotFoundError, RefusedError, Worker } from "tickwheel";
import { startService } from "tickwheel/testing";
import { shared } from "./support.js";

const HOUR = 3_600_000;

test("three days pass within a test", async () => {
    await using service = await startService();
    const client = service.client();
    const seen: { to: string; at: number }[] = [];
    const worker = new Worker(service.url, { signals: false, logger: { warn: () => {}, error: () => {} } });
    worker.task("remind", async ({ payload }: { payload: unknown }) => {
        const { to } = payload as { to: string };
        seen.push({ to, at: (await service.now()).getTime() });
        if (to === "ada") await client.register({ callback: "remind", delay: "6h", payload: { to: "grace" } });
    });
    const began = (await service.now()).getTime();
    await client.register({ callback: "remind", delay: "3d", payload: { to: "ada" } });
    const running = worker.run();
    const waits = await service.advance("2d 23h");
    assert.deepEqual([waits.fired, seen], [0, []]);
    const { fired, unsettled, waiting } = await service.advance(7 * HOUR);
    assert.deepEqual([fired, unsettled, waiting], [2, 0, 0]);
    await worker.stop();
    await running;
    assert.deepEqual(
        seen.map(({ to }) => to),
        ["ada", "grace"],
    );
    for (const [place, hours] of [72, 78].entries()) {
        const late = (seen[place]?.at ?? 0) - began - hours * HOUR;
        assert.ok(late >= 0 && late < 60_000, `${late} ms`);
    }
});

test("a jump goes forward only, and other services have no clock to move", async () => {
    await using service = await startService();
    await service.jump(new Date((await service.now()).getTime() + HOUR));
    await assert.rejects(service.jump(new Date(0)), RefusedError);
    await assert.rejects((await shared()).advance("1d"), NotFoundError);
});
