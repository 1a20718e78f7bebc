// A route of Next.js (app/api/reminders/route.ts) that takes signed requests of the service. It runs on Node.js and at the edge.
import { WebhookError, verify } from "tickwheel/webhooks";

const seen = new Set<string>();

export async function POST(request: Request): Promise<Response> {
    try {
        const body = await request.text();
        const message = await verify<{ basket: string }>(body, request.headers, process.env["WEBHOOK_SECRET"] ?? "");
        // The service repeats a request whose answer was lost. A program of several processes keeps the ids in its database.
        if (seen.has(message.id)) return new Response(null, { status: 204 });
        seen.add(message.id);
        return Response.json({ reminded: message.payload.basket, attempt: message.attempt });
    } catch (error) {
        if (error instanceof WebhookError) return new Response(error.message, { status: 401 });
        throw error;
    }
}
