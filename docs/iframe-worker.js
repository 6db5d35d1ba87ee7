// A browser starts no workers for a page that was opened from a folder (file://). The search of this site runs in a worker:
// here it runs in a hidden frame instead, which is spoken to in the same way. Pages from a server keep their workers.
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(script) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "search";
      document.body.append(frame);
      const inside = frame.contentWindow;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      // What is said before the script has been read waits for it.
      const program = frame.contentDocument.createElement("script");
      this.ready = new Promise((read) => (program.onload = () => read(inside)));
      program.src = script;
      frame.contentDocument.head.append(program);
    }

    postMessage(data) {
      this.ready.then((inside) => inside.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
