/** What is asked of the server in bulk. */
export interface DeadFilterInit {
  jobIds?: string[];
  queue?: string;
  engine?: string;
  tag?: string;
  text?: string;
}
