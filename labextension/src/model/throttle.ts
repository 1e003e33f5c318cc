/** Do something soon: at once after a quiet time, else when the last time is long enough ago. Put off while hidden. */
export class Throttle {
  private _lastMs = 0;
  private _timer: ReturnType<typeof setTimeout> | undefined;
  private _isRunning = false;
  private _isWanted = false;
  private _isDisposed = false;

  constructor(
    private readonly _run: () => Promise<void>,
    private readonly _everyMs: number,
    private readonly _isHidden: () => boolean
  ) {}

  soon(): void {
    this._isWanted = true;
    if (this._timer === undefined && !this._isRunning && !this._isHidden() && !this._isDisposed) {
      const left = this._lastMs + this._everyMs - Date.now();
      this._timer = setTimeout(() => void this._now(), Math.max(0, left));
    }
  }

  /** What was put off while the page was hidden is done now. */
  wake(): void {
    if (this._isWanted) {
      this.soon();
    }
  }

  dispose(): void {
    this._isDisposed = true;
    clearTimeout(this._timer);
  }

  private async _now(): Promise<void> {
    this._timer = undefined;
    this._isWanted = false;
    this._isRunning = true;
    this._lastMs = Date.now();
    try {
      await this._run();
    } catch {
      // The stream says when the server is lost, and everything is read anew when it is back.
    }
    this._isRunning = false;
    if (this._isWanted) {
      this.soon();
    }
  }
}
