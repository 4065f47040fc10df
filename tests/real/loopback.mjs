// Preload (`node --import`): every TCP server of the process listens on 127.0.0.1 only, and the
// port it really got is printed as `LISTENING <port>`. So a server that binds all interfaces can
// be tested with PORT=0, without a race for a free port.
import net from "node:net";

const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (...args) {
  const callback = args.find((arg) => typeof arg === "function");
  const first = args[0];
  const port = typeof first === "object" && first !== null ? first.port : first;
  if (port === undefined || port === null) return listen.apply(this, args); // a pipe, not TCP
  this.once("listening", () => process.stdout.write(`LISTENING ${this.address().port}\n`));
  return listen.call(this, { port: Number(port), host: "127.0.0.1" }, callback);
};
