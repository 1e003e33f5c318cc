/** Loam's own icons, drawn in Lab's colours. */
import { LabIcon } from '@jupyterlab/ui-components';

export const loamIcon = new LabIcon({
  name: 'loam-lab:loam',
  svgstr:
    '<svg xmlns="http://www.w3.org/2000/svg" width="16" height="16" viewBox="0 0 16 16">' +
    '<g class="jp-icon3" fill="none" stroke="#616161" stroke-width="1.7" style="fill:none">' +
    '<path class="jp-loam-wave" d="M1 4.6c2.3-2 4.7 2 7 0s4.7-2 7 0M1 8.6c2.3-2 4.7 2 7 0s4.7-2 7 0M1 12.6c2.3-2 4.7 2 7 0s4.7-2 7 0"/>' +
    '</g></svg>'
});
